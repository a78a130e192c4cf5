"""Which machine a process runs on: engines share larderd's memory on one machine alone.
Containers of one machine are one host."""


def this_host():
    """The same text in all processes of a running kernel, and in no others. "": the kernel does
    not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
