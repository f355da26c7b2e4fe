"""Where a return probe would harm the traced program: in whole files, as they tell by themselves, and in functions of
plain C, of glibc mostly, that look at their return address, keep it, or have none, or through which an exception may
pass, since they call a function of their caller's. And where functions end, by their instructions.
"""

from __future__ import annotations

from ...base.function_ends import FunctionEnds, TailCalls
from ...errors import MachineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..foreign.files import ElfFile

# Of functions by name: a key of semantics.returns.HAZARDS.
FUNCTIONS = {name: hazard for hazard, names in {
    "twice": "setjmp _setjmp __setjmp sigsetjmp __sigsetjmp getcontext __getcontext swapcontext __swapcontext",
    "caller": "dlopen dlmopen dlsym dlvsym mcount _mcount __fentry__ backtrace __backtrace",
    "no address": "_start __start _dl_start_user __restore_rt __restore __start_context __libc_start_context "
                  "_dl_runtime_resolve _dl_runtime_resolve_fxsave _dl_runtime_resolve_xsave "
                  "_dl_runtime_resolve_xsavec _dl_runtime_profile _dl_runtime_profile_sse _dl_runtime_profile_avx "
                  "_dl_runtime_profile_avx512",
    "callback": "pthread_exit __pthread_exit thrd_exit __pthread_unwind __pthread_unwind_next pthread_once "
                "__pthread_once call_once qsort qsort_r __qsort_r bsearch lfind lsearch tsearch tfind tdelete twalk "
                "twalk_r tdestroy __tsearch __tfind __tdelete __twalk __twalk_r __tdestroy ftw ftw64 nftw nftw64 "
                "scandir scandir64 scandirat scandirat64 dl_iterate_phdr",
}.items() for name in names.split()}


def return_hazard(file: ElfFile, offset: int) -> str:
    """Why a return probe of the function at a file offset would do harm, for the whole file or for it alone; "" if it
    would not. MachineError if the file cannot be read."""
    if file.hazards is None:
        of_file = str(file.ask_reader("return_hazard"))
        file.hazards = of_file, {} if of_file else {
            function.offset: FUNCTIONS[function.name] for function in file.functions() if function.name in FUNCTIONS}
    of_file, of_functions = file.hazards
    return of_file or of_functions.get(offset, "")


MANY = 4096  # functions that are asked for at a time


def function_ends(file: ElfFile, offsets: list[int]) -> list[FunctionEnds]:
    """Where the functions at these offsets end, by their instructions. MachineError if the file cannot be read."""
    ends: list[FunctionEnds] = []
    while len(ends) < len(offsets):
        page = file.ask_reader("function_ends", offsets[len(ends):len(ends) + MANY])
        if not page:
            raise MachineError(f"{file.path}: senseless answer")
        ends += [FunctionEnds(tuple(instructions), tuple(jumps), problem,
                              TailCalls(file.path, *map(tuple, tails)) if tails[0] else None,
                              tuple([(at, name) for at, name in imports]), repeats)
                 for instructions, jumps, problem, imports, repeats, *tails in page]
    return ends[:len(offsets)]
