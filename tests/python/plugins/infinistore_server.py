"""InfiniStore's own server, run in the environment of the wheel: its program without one step. The
step forbids the kernel to kill the server for memory, and needs a capability."""

import infinistore.server

infinistore.server.prevent_oom = lambda: None
infinistore.server.main()
