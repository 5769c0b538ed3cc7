/* Starts GHC's runtime inside another program, which keeps its own signals: no handler of Ctrl-C, no timer. */
#include "Rts.h"

void haskell_start(void) {
    RtsConfig config = defaultRtsConfig;
    config.rts_opts_enabled = RtsOptsAll;
    config.rts_opts = "--install-signal-handlers=no -V0";
    hs_init_ghc(NULL, NULL, config);
}
