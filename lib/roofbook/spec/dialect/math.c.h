#include <math.h>

