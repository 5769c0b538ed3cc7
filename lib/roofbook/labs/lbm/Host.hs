-- The host in Haskell: a loop that enqueues an already built kernel, as host.c has it in C. Called by haskell.py.
-- It calls OpenCL through GHC's foreign interface, by pointers to its functions.
module Host () where

import Foreign
import Foreign.C.Types

type Enqueue =
  Ptr () -> Ptr () -> CUInt -> Ptr CSize -> Ptr CSize -> Ptr CSize -> CUInt -> Ptr () -> Ptr () -> IO CInt
type SetArg = Ptr () -> CUInt -> CSize -> Ptr CInt -> IO CInt
type Finish = Ptr () -> IO CInt

-- An unsafe call costs what it costs in C. It may be one: OpenCL does not call back into Haskell.
foreign import ccall unsafe "dynamic" enqueueOf :: FunPtr Enqueue -> Enqueue
foreign import ccall unsafe "dynamic" setArgOf :: FunPtr SetArg -> SetArg
foreign import ccall unsafe "dynamic" finishOf :: FunPtr Finish -> Finish

type Loop =
  FunPtr Enqueue -> FunPtr SetArg -> FunPtr Finish -> Ptr () -> Ptr (Ptr ()) -> CUInt -> CUInt -> Ptr CSize -> Ptr CSize ->
  CInt -> CInt -> IO CInt

foreign export ccall "haskell_loop" loop :: Loop

-- kernels: for the even and for the odd steps. Their argument `stepArgument` takes the step's number.
-- Returns 0, or the first error code of the driver.
loop :: Loop
loop enqueue setArg finish queue kernels stepArgument dims global local first steps = alloca $ \number -> do
  evenKernel <- peekElemOff kernels 0
  oddKernel <- peekElemOff kernels 1
  let go step
        | step == first + steps = return 0
        | otherwise = do
            let kernel = if step .&. 1 == 0 then evenKernel else oddKernel
            poke number step
            setArgOf setArg kernel stepArgument (fromIntegral (sizeOf step)) number
              `andThen` enqueueOf enqueue queue kernel dims nullPtr global local 0 nullPtr nullPtr
              `andThen` go (step + 1)
  go first `thenAlways` finishOf finish queue -- also after an error: nothing may stay in flight

-- The second where the first made no error; the first error.
andThen :: IO CInt -> IO CInt -> IO CInt
andThen one other = one >>= \failed -> if failed == 0 then other else return failed
infixr 1 `andThen`

-- Both; the first error.
thenAlways :: IO CInt -> IO CInt -> IO CInt
thenAlways one other = do
  failed <- one
  after <- other
  return (if failed == 0 then after else failed)
