#pragma once

#include <penstock/extend/json.h>
