#pragma once

#include <penstock/extend/layout.h>
