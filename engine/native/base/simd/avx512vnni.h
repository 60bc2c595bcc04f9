#pragma once
#include "base/simd/avx512.h"
