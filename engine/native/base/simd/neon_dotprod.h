#pragma once
#include "base/simd/neon.h"
