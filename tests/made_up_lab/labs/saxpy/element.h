// One element of the sum.
#pragma once

DEVICE float element(float a, float x, float y) {
  return FMA(a, x, y);
}
