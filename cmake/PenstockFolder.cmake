# One target per folder of src/, its unit tests, and the closure of what it may link.

# penstock_folder(<name> [DEPENDS <folder>...] [LIBS <library>...] [SUBFOLDERS <folder>...] [ALONE <test>...])
#
# Makes `penstock_<name>` from the *.cc of the folder and its SUBFOLDERS, and `test_<name>` from their *_test.cc. DEPENDS
# names the folders to its left; a unit test links those and nothing else, so a dependency to the right fails to link. A
# folder without sources yet is an INTERFACE target. ALONE: see penstock_tests_together.
function(penstock_folder name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LIBS;SUBFOLDERS;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "*.cc")
  file(GLOB tests CONFIGURE_DEPENDS "*_test.cc")
  foreach(subfolder IN LISTS arg_SUBFOLDERS)
    file(GLOB more CONFIGURE_DEPENDS "${subfolder}/*.cc")
    file(GLOB more_tests CONFIGURE_DEPENDS "${subfolder}/*_test.cc")
    list(APPEND sources ${more})
    list(APPEND tests ${more_tests})
  endforeach()
  list(REMOVE_ITEM sources ${tests})

  # OBJECT libraries do not pass their objects to indirect users: list the closure explicitly.
  set(folders ${name})
  set(libs ${arg_LIBS})
  foreach(other IN LISTS arg_DEPENDS)
    get_property(theirs GLOBAL PROPERTY PENSTOCK_FOLDERS_${other})
    get_property(their_libs GLOBAL PROPERTY PENSTOCK_LIBS_${other})
    list(APPEND folders ${theirs})
    list(APPEND libs ${their_libs})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(REMOVE_DUPLICATES libs)
  set_property(GLOBAL PROPERTY PENSTOCK_FOLDERS_${name} ${folders})
  set_property(GLOBAL PROPERTY PENSTOCK_LIBS_${name} ${libs})

  set(target penstock_${name})
  if(sources)
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PRIVATE penstock_options $<TARGET_NAME_IF_EXISTS:penstock_fuzzed> ${libs})
    target_compile_definitions(${target} PRIVATE PENSTOCK_BUILDING)
    penstock_unity(${target})
    if(PENSTOCK_SANITIZE STREQUAL "thread" AND name MATCHES "^(format_|plan$)")
      penstock_optimised_less(${target})  # a job's one thread parses and plans: little of what the threaded tests do
    elseif(PENSTOCK_SANITIZE MATCHES "address" AND NOT PENSTOCK_OPTIMISE_FUZZED
           AND name MATCHES "^(format_.*|store|engine|cuda)$")
      penstock_optimised_less(${target})  # the tests run it briefly; arrays' and codecs' loops are optimised
    elseif(NOT PENSTOCK_SANITIZE AND name MATCHES "^format_(hdf5|netcdf|parquet|reference)$")
      penstock_optimised_less(${target})  # parsers, which wait for their bytes
    endif()
  else()
    add_library(${target} INTERFACE)
  endif()

  if(tests AND PENSTOCK_TESTS)
    penstock_test(test_${name} FOLDERS ${folders} LIBS ${libs} SOURCES ${tests})
    penstock_tests_together(test_${name} ${arg_ALONE})
  endif()
endfunction()

# penstock_unity(<target>): compiles PENSTOCK_UNITY of its sources as one.
function(penstock_unity target)
  if(PENSTOCK_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${PENSTOCK_UNITY})
    # g++ inlines less in sources that it considers large.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:--param=large-unit-insns=1000000>)
  endif()
endfunction()

# penstock_optimised_less(<target>): for code whose time is that of the calls it makes. g++ takes a third less time with -O2
# than with -O3, and clang half with -O0 under sanitizers.
function(penstock_optimised_less target)
  if(PENSTOCK_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# penstock_objects(<variable> <folder>...): the object files of the folders that have sources.
function(penstock_objects variable)
  set(objects)
  foreach(folder IN LISTS ARGN)
    get_target_property(type penstock_${folder} TYPE)
    if(type STREQUAL "OBJECT_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:penstock_${folder}>)
    endif()
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()

# Flags of all tests. Optimising one costs more compile time than it saves when it runs.
add_library(penstock_test_options INTERFACE)
target_link_libraries(penstock_test_options INTERFACE penstock_options GTest::gtest_main)
target_include_directories(penstock_test_options INTERFACE ${PROJECT_SOURCE_DIR}/tests)
target_compile_options(penstock_test_options INTERFACE $<$<CONFIG:Release>:-O1>)
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_test_options INTERFACE -O0)
endif()

# For programs that are not installed, some sixty with the whole library in each: it takes a third of the usual linker's
# time. (Sanitized targets are always linked in this way: see PenstockOptions.)
add_library(penstock_test_linker INTERFACE)
if(PENSTOCK_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_link_options(penstock_test_linker INTERFACE -fuse-ld=lld)
endif()
target_link_libraries(penstock_test_options INTERFACE penstock_test_linker)

if(PENSTOCK_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(penstock_test_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")  # for ccache: same bytes each time
endif()

# penstock_test(<name> FOLDERS <folder>... LIBS <library>... SOURCES <file>...): one GoogleTest executable, one ctest entry.
#
# PENSTOCK_SOURCE_DIR is defined for tests that read files under tests/data.
function(penstock_test name)
  cmake_parse_arguments(arg "" "" "FOLDERS;LIBS;SOURCES" ${ARGN})
  penstock_objects(objects ${arg_FOLDERS})
  add_executable(${name} ${arg_SOURCES} ${objects})
  target_link_libraries(${name} PRIVATE penstock_test_options ${arg_LIBS})
  target_compile_definitions(${name} PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(PENSTOCK_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM test_headers)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "unit" TIMEOUT 600)
  if(name IN_LIST PENSTOCK_THREADED_TESTS)
    set_tests_properties(${name} PROPERTIES LABELS "unit;threaded")
    add_dependencies(threaded_tests ${name})
  endif()
  if(name IN_LIST PENSTOCK_RELEASE_TESTS)
    penstock_release_test(${name} ${name})
  endif()
endfunction()

# penstock_release_test(<test> [<target>...]): adds the label `release` to a test, and what it needs to `release_tests`.
function(penstock_release_test test)
  set_property(TEST ${test} APPEND PROPERTY LABELS release)
  if(ARGN)
    add_dependencies(release_tests ${ARGN})
  endif()
endfunction()

# penstock_tests_together(<target> [<source>...]): compiles PENSTOCK_UNITY of a test's sources as one, which takes half of
# the time, because of their headers. The named sources are compiled alone: their helpers have the same names as those
# of others.
function(penstock_tests_together target)
  penstock_unity(${target})
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # A helper `bytes` of one test is shadowed by parameters in headers that the next one includes.
  set_target_properties(${target} PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE "#pragma GCC diagnostic ignored \"-Wshadow\"")
endfunction()
