#include "kernels/max_pool_indices/body.h"

namespace palm {

void PALM_FN(max_places_bf16)(const MaxPlaces<Bf16>& max) { max_places(max); }

}  // namespace palm
