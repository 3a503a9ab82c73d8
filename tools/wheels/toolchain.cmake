# How CMake compiles the libraries inside the wheels: C with zig's clang for an old glibc, C++ with g++ (make_wheels.py).
set(folder $ENV{PENSTOCK_WHEEL_FOLDER})
set(CMAKE_C_COMPILER ${folder}/bin/cc)
set(CMAKE_CXX_COMPILER g++)
set(CMAKE_AR ${folder}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${folder}/bin/ranlib CACHE FILEPATH "")
set(CMAKE_ASM_NASM_COMPILER nasm)

# The libraries of this system are for another glibc: only those in prefix/ are found.
set(CMAKE_FIND_ROOT_PATH ${folder}/prefix)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_PACKAGE_REGISTRY OFF)
set(CMAKE_PREFIX_PATH ${folder}/prefix)
