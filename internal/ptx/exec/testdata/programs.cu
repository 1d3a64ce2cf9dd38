#define FN __attribute__((device)) static
#include "programs.inc"
extern "C" __attribute__((global)) void k(u32*out){ u32 t=__nvvm_read_ptx_sreg_ctaid_x()*__nvvm_read_ptx_sreg_ntid_x()+__nvvm_read_ptx_sreg_tid_x(); thread(t,out+t); }
