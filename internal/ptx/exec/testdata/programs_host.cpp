#define FN static
#include "programs.inc"
extern "C" int printf(const char*,...);
int main(){ for(u32 t=0;t<1024;t++){u32 h; thread(t,&h); printf("%u\n",h);} }
