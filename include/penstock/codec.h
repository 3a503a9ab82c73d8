#pragma once

#include <penstock/extend/codec.h>
