#!/usr/bin/python3
"""Compares plumb_same with torch.allclose near the tolerance, type by type (needs Debian's torch):
bench/metric/check_torch.py [libplumb.so]. Prints the differences; there must be none."""
import ctypes as C, math, random, sys

import torch

L=C.CDLL(sys.argv[1] if len(sys.argv)>1 else './build/libplumb.so')
class Opt(C.Structure): _fields_=[('tol',C.c_double)]+[(f'i{k}',C.c_int) for k in range(8)]+[('iou',C.c_double)]
class Res(C.Structure): _fields_=[('same',C.c_int),('rule',C.c_char_p),('re',C.c_double),('rs',C.c_double),('m',C.c_double),('why',C.c_char*256)]
L.plumb_tensor_new.argtypes=[C.c_int,C.c_int,C.POINTER(C.c_int64),C.c_void_p,C.c_size_t,C.POINTER(C.c_void_p),C.c_void_p]
L.plumb_same.argtypes=[C.c_void_p,C.c_void_p,C.c_void_p,C.POINTER(Opt),C.POINTER(Res),C.c_void_p]
L.plumb_tensor_free.argtypes=[C.c_void_p]
def T(code,t):
    raw=t.contiguous().view(torch.int16).numpy().tobytes() if t.dtype==torch.bfloat16 else t.numpy().tobytes()
    d=(C.c_int64*1)(t.numel()); o=C.c_void_p()
    assert L.plumb_tensor_new(code,1,d,raw,len(raw),C.byref(o),None)==0
    return o
random.seed(1); n=bad=yes=0
for dt,code in ((torch.float32,1),(torch.float16,10),(torch.bfloat16,16),(torch.int64,7),(torch.int32,6),(torch.uint8,2),(torch.complex64,14)):
    for i in range(1500):
        tol=random.choice([1e-3,1e-2,1e-4,0.04,0.0])
        v=random.choice([1,10,100,1e-3,1e-2,1000])*random.uniform(-1,1)
        if dt in(torch.int64,torch.int32): v=random.randint(-20000,20000)
        if dt==torch.uint8: v=random.randint(0,255)
        w=v+random.choice([-1,1])*(tol+tol*abs(v))*random.choice([0.99,1,1.01,0.999,1.001,0.5,2]) if random.random()<.9 else random.choice([float('nan'),float('inf'),-float('inf'),v])
        if not dt.is_floating_point and not dt.is_complex:
            w=v if math.isnan(w) or math.isinf(w) else round(w)
            if dt==torch.uint8: w=min(255,max(0,w))
        if random.random()<.05 and dt.is_floating_point: v=w
        a=torch.tensor([v],dtype=dt); b=torch.tensor([w],dtype=dt)
        for en in (0,1):
            want=torch.allclose(a,b,atol=tol,rtol=tol,equal_nan=bool(en))
            o=Opt(tol,en,1,0,0,0,0,0,0,0.99); r=Res(); x=T(code,a); y=T(code,b)
            assert L.plumb_same(x,y,None,C.byref(o),C.byref(r),None)==0
            L.plumb_tensor_free(x); L.plumb_tensor_free(y)
            n+=1; yes+=want
            if (r.same==1)!=want:
                bad+=1
                if bad<12: print(dt,a,b,tol,en,want,r.same,r.why)
print(n,'compared',yes,'close',bad,'differ')
sys.exit(bad > 0)
