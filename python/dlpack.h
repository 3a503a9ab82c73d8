#pragma once

// The capsules' layout is the library's: <penstock/dlpack.h>.
#include <penstock/dlpack.h>
