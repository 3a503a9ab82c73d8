# Installs the build under test into a folder of its own, builds the program here against it as a user would, and lets it
# read an array: 14 bytes, of which the second chunk was never written. Then the same of examples/extend: a codec, a
# format and a store that a project of its own adds.
set(work ${BUILD_DIR}/install-test)
file(REMOVE_RECURSE ${work})

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(WRITE ${work}/text.zarr/zarr.json [[{
  "zarr_format": 3, "node_type": "array", "shape": [14], "data_type": "uint8", "fill_value": 46,
  "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8]}},
  "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}]
}]])
file(WRITE ${work}/text.zarr/c/0 "penstock")

step(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${work}/prefix --component development)
function(build source to)
  step(${CMAKE_COMMAND} -S ${source} -B ${to} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
       -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_BUILD_TYPE=Release
       -DVERSION=${VERSION})
  step(${CMAKE_COMMAND} --build ${to})
endfunction()

build(${SOURCE_DIR} ${work}/build)
step(${work}/build/consumer ${work}/text.zarr)

# The same by pkg-config, if this machine has it.
find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(PKG_CONFIG)
  file(GLOB_RECURSE pc ${work}/prefix/penstock.pc)
  cmake_path(GET pc PARENT_PATH pc_folder)
  set(ENV{PKG_CONFIG_PATH} ${pc_folder})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs penstock OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  step(${CXX_COMPILER} ${CMAKE_CURRENT_LIST_DIR}/main.cc -o ${work}/by-pkg-config ${flags})
  step(${work}/by-pkg-config ${work}/text.zarr)
endif()
build(${SOURCE_DIR}/../../examples/extend ${work}/extend)
step(${work}/extend/extensions ${work})
