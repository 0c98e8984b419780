"""Limits on the process that runs an answer: time, memory, files, network, and other processes.

On Linux the kernel enforces them, without any privileges: Landlock for files, a seccomp filter for sockets, new
processes, and signals. Elsewhere, and on a kernel that has neither, a hook of the interpreter refuses the same things.
It stops ordinary code, but not code that calls the operating system by other means than Python. The limits cannot be
lifted again by the process.
"""

import contextlib
import ctypes
import os
import pathlib
import platform
import struct
import sys
import sysconfig

# rights of Landlock: to read and execute; to change ordinary files and folders, but to make no links or devices; of a file
READ, WORK, FILE = 0b1101, 0b110000110111110, 0b100000000000111
RIGHTS_OF_VERSION = {1: 13, 2: 14, 3: 15, 4: 15}  # number of rights, 16 from version 5
EPERM, ENOSYS = 1, 38
ALLOW, ERROR, KILL = 0x7FFF0000, 0x00050000, 0x80000000  # what a seccomp filter returns
THREAD = 0x10000  # flag of clone: a thread, not a process
NEWEST = 447  # system calls from this number on are refused as unknown; programs then use the older ones
# refused: sockets, other processes and programs, shared memory, the attributes of files, which Landlock leaves alone, and
# ways around the limits; the numbers of the system calls on x86-64 and 64-bit ARM
REFUSED = {
    "socket": (41, 198),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "shmget": (29, 194),
    "memfd_create": (319, 279),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
}
MACHINES = ("x86_64", "aarch64")
IDENTIFIER, CLONE, PRLIMIT = (0xC000003E, 0xC00000B7), (56, 220), (302, 261)
CLONE3 = 435
PACKAGES = ("site-packages", "dist-packages")  # names of the folders of installed packages


def readable(root: pathlib.Path, hidden) -> list:  # of paths
    "A folder as a list of paths that together hold everything in it but the hidden paths."
    if not any(path == root or root in path.parents for path in hidden):
        return [root]
    if root in hidden or not root.is_dir():
        return []
    return [path for inside in root.iterdir() for path in readable(inside, hidden)]


def program_folders() -> list:
    "What a Python program needs to read: the interpreter, its libraries, and installed packages."
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    system = ["/usr/lib", "/usr/local/lib", "/lib", "/lib64", "/usr/lib64", "/etc/ld.so.cache", "/dev/urandom"]
    about = ["/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system", "/usr/share/zoneinfo"]
    installed = [path for path in sys.path if pathlib.Path(path).name in PACKAGES]
    found = [*named, *installed, os.path.join(sys.base_prefix, "lib"), sys.executable, *system, *about]
    return [pathlib.Path(path).resolve() for path in dict.fromkeys(found) if path and os.path.exists(path)]


def restrict_files(read: list, write: list) -> bool:
    "Let this process open only some paths, by Landlock; False where the kernel has none."
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    if (version := call(444, None, ctypes.c_size_t(0), 1)) < 1:
        return False
    every = (1 << RIGHTS_OF_VERSION.get(version, 16)) - 1
    rules = call(444, ctypes.c_char_p(struct.pack("Q", every)), ctypes.c_size_t(8), 0)
    for path, rights in [*((path, READ) for path in read), *((path, WORK & every) for path in write)]:
        with contextlib.suppress(OSError):  # a file that has gone meanwhile
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rights &= every if os.path.isdir(path) else FILE
            call(445, rules, 1, ctypes.c_char_p(struct.pack("=Qi", rights, place)), 0)
            os.close(place)
    done = ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and call(446, rules, 0) == 0
    os.close(rules)
    return done


def refused_on(machine: str) -> list[int]:
    "The numbers of the system calls that are refused."
    return [numbers[MACHINES.index(machine)] for numbers in REFUSED.values() if numbers[MACHINES.index(machine)]]


def filter_of(machine: str) -> bytes:
    "The seccomp filter of a machine, as a program of instructions (code, jump if true, jump if false, value)."
    column = MACHINES.index(machine)
    identifier, clone, limits = (numbers[column] for numbers in (IDENTIFIER, CLONE, PRLIMIT))
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    refuse = lambda number, error: [(equal, 0, 1, number), (give, 0, 0, ERROR | error)]
    lines = [(load, 0, 0, 4), (equal, 1, 0, identifier), (give, 0, 0, KILL), (load, 0, 0, 0)]
    lines += [line for number in refused_on(machine) for line in refuse(number, EPERM)]
    lines += refuse(CLONE3, ENOSYS)  # its flags cannot be seen; the library then uses clone
    lines += [(at_least, 0, 1, NEWEST), (give, 0, 0, ERROR | ENOSYS)]
    allow_or_refuse = [(give, 0, 0, ERROR | EPERM), (give, 0, 0, ALLOW)]
    lines += [(equal, 0, 4, clone), (load, 0, 0, 16), (any_bit, 1, 0, THREAD), *allow_or_refuse]
    lines += [(equal, 0, 4, limits), (load, 0, 0, 16), (equal, 1, 0, 0), *allow_or_refuse]
    lines += [(give, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def restrict_calls() -> bool:
    "Give up the capabilities of root, and refuse sockets, new processes, and signals, by seccomp; False where there is none."
    if sys.platform != "linux" or platform.machine() not in MACHINES or sys.maxsize < 2**32:
        return False
    code = filter_of(platform.machine())
    lines = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(lines))
    ctypes.CDLL(None).capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
    prctl = ctypes.CDLL(None).prctl
    return prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.c_char_p(program), 0, 0) == 0


def restrict_resources(seconds: int, memory: int, threads_only: bool):
    "Limit the time on the processor, the memory in bytes, and the size of files; without effect on Windows."
    try:
        import resource
    except ImportError:
        return
    limits = {"CPU": seconds, "AS": memory, "FSIZE": 2**24, "CORE": 0, "NOFILE": 256}
    for name, value in (limits if threads_only else limits | {"NPROC": 1}).items():
        with contextlib.suppress(ValueError, OSError):  # the system allows less, or has no such limit
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


PROCESSES = ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec")
SIGNALS = ("os.kill", "os.killpg", "os.startfile", "os.startfile/2")
FILES = ("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown")
MORE_FILES = ("os.link", "os.symlink", "os.truncate", "os.utime", "os.setxattr", "os.removexattr")


def add_hook(files: tuple | None, calls: bool):  # files: (read, write), folders
    "Refuse in the interpreter what the kernel does not: files outside of the folders, or sockets and processes."
    inside = lambda path, roots: any(path == root or path.startswith(root + os.sep) for root in roots)
    read, write = ([os.path.normcase(path) for path in some] for some in files or ((), ()))

    def refuse(event, arguments):
        if calls and (event.startswith("socket.") or event in PROCESSES or event in SIGNALS):
            raise PermissionError(f"{event} is not allowed here")
        if files and event in FILES + MORE_FILES:
            changes = event not in ("open", "os.listdir", "os.scandir")
            if event == "open":
                mode, flags = arguments[1], arguments[2]
                changes = bool(mode and set(mode) & set("wax+")) or bool(flags & (os.O_WRONLY | os.O_RDWR))
            paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, (str, bytes))]
            for path in paths[:1] if event == "open" else paths:
                if not inside(os.path.normcase(os.path.realpath(path)), write if changes else read + write):
                    raise PermissionError(f"{path} is not allowed here")

    sys.addaudithook(refuse)


def confine(
    work: pathlib.Path,  # the only folder in which files may be written
    hidden,  # paths that may not be read, although they are part of an installed package
    package: pathlib.Path,  # folder of gib_nb
    seconds: int,  # on the processor
    memory: int,  # bytes
) -> dict:  # "files", "network" → "kernel" or "interpreter"
    "Limit this process for good, and say by which means."
    hidden = [pathlib.Path(path).resolve() for path in hidden]
    roots = [*program_folders(), package.resolve()]
    read = [path for root in dict.fromkeys(roots) for path in readable(root, hidden)]
    write = [work.resolve(), *(path for path in [pathlib.Path(os.devnull)] if path.exists())]
    files, calls = restrict_files(read, write), restrict_calls()
    restrict_resources(seconds, memory, threads_only=calls)
    if not (files and calls):
        add_hook(None if files else (read, write), not calls)
    return {"files": "kernel" if files else "interpreter", "network": "kernel" if calls else "interpreter"}
