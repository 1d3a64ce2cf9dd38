#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
typedef unsigned int u32; typedef unsigned long long u64; typedef unsigned char u8;
__device__ inline u32 rotr(u32 x,int n){return __builtin_rotateright32(x,n);}
__constant__ u32 K[64]={
0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,0xd807aa98,0x12835b01,0x243185be,0x550c7dc3,0x72be5d74,0x80deb1fe,0x9bdc06a7,0xc19bf174,0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,0x5cb0a9dc,0x76f988da,0x983e5152,0xa831c66d,0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,0x27b70a85,0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,0x92722c85,0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,0xd192e819,0xd6990624,0xf40e3585,0x106aa070,0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,0x682e6ff3,0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2};
__attribute__((noinline)) __device__ void block(u32*h,u32*w){
 u32 a=h[0],b=h[1],c=h[2],d=h[3],e=h[4],f=h[5],g=h[6],hh=h[7];
 #pragma unroll 1
 for(int i=0;i<64;i++){
  if(i>=16){u32 x=w[(i+1)&15],y=w[(i+14)&15];
   w[i&15]+= (rotr(x,7)^rotr(x,18)^(x>>3)) + w[(i+9)&15] + (rotr(y,17)^rotr(y,19)^(y>>10));}
  u32 t1=hh+(rotr(e,6)^rotr(e,11)^rotr(e,25))+((e&f)^(~e&g))+K[i]+w[i&15];
  u32 t2=(rotr(a,2)^rotr(a,13)^rotr(a,22))+((a&b)^(a&c)^(b&c));
  hh=g;g=f;f=e;e=d+t1;d=c;c=b;b=a;a=t1+t2;}
 h[0]+=a;h[1]+=b;h[2]+=c;h[3]+=d;h[4]+=e;h[5]+=f;h[6]+=g;h[7]+=hh;}
extern "C" __global__ void sha256_chunks(const u8*in,u64 total,u32 chunk,u32 nchunks,u8*out){
 u32 idx=__nvvm_read_ptx_sreg_ctaid_x()*__nvvm_read_ptx_sreg_ntid_x()+__nvvm_read_ptx_sreg_tid_x();
 if(idx>=nchunks)return;
 u64 start=(u64)idx*chunk; u64 len=total-start<chunk?total-start:chunk;
 const u8*p=in+start;
 u32 h[8]={0x6a09e667,0xbb67ae85,0x3c6ef372,0xa54ff53a,0x510e527f,0x9b05688c,0x1f83d9ab,0x5be0cd19};
 u32 w[16]; u64 off=0;
 for(;off+64<=len;off+=64){
  for(int i=0;i<16;i++) w[i]=__builtin_bswap32(*(const u32*)(p+off+4*i));
  block(h,w);}
 u32 rem=len-off; 
 for(int i=0;i<16;i++){u32 v=0;for(int j=0;j<4;j++){u32 k=4*i+j;u32 b=k<rem?p[off+k]:(k==rem?0x80:0);v=v<<8|b;}w[i]=v;}
 if(rem>=56){block(h,w);for(int i=0;i<16;i++)w[i]=0;}
 w[14]=(u32)(len>>29);w[15]=(u32)(len<<3);
 block(h,w);
 for(int i=0;i<8;i++)for(int j=0;j<4;j++)out[(u64)idx*32+4*i+j]=h[i]>>(24-8*j);
}
