# Dumps of an own engine: .npy files, npz, .bin, flat arrays and names spelt for files all pair, also when the engine is wrong (the last two columns of the convolution).
/usr/bin/python3 - <<'P'
import numpy as np, os, sys
r=np.random.RandomState(1)
x=r.randn(1,1,16,16).astype('f'); w=r.randn(8,1,3,3).astype('f'); b=r.randn(8).astype('f'); W=r.randn(392,10).astype('f')*.1; c=r.randn(10).astype('f')
def conv(x):
    y=np.zeros((1,8,14,14),'f')
    for k in range(8):
        for i in range(14):
            for j in range(14): y[0,k,i,j]=(x[0,0,i:i+3,j:j+3]*w[k,0]).sum()+b[k]
    return y
def lst(a): return ", ".join(repr(float(v)) for v in a.ravel())
open('m.onnxtxt','w').write(f'''<ir_version: 8, opset_import: ["" : 17]>
g (float[1,1,16,16] x) => (float[1,10] logits)
<float[8,1,3,3] w = {{{lst(w)}}}, float[8] b = {{{lst(b)}}}, float[392,10] W = {{{lst(W)}}}, float[10] c = {{{lst(c)}}}>
{{ "/0/Conv_output_0" = Conv(x, w, b) "/1/Relu_output_0" = Relu("/0/Conv_output_0") "/2/MaxPool_output_0" = MaxPool<kernel_shape=[2,2], strides=[2,2]>("/1/Relu_output_0") "/3/Flatten_output_0" = Flatten("/2/MaxPool_output_0") logits = Gemm("/3/Flatten_output_0", W, c) }}
''')
def net(bad):
    y=conv(x)
    if bad: y[...,-2:]=0.5*y[...,-2:]+0.3
    rl=np.maximum(y,0); p=rl.reshape(1,8,7,2,7,2).max((3,5)); o=p.reshape(1,-1)@W+c
    return y,rl,p,o.astype('f')
for bad in (0,1):
    t='bad' if bad else 'good'
    y,rl,p,o=net(bad)
    own=dict(x=x,conv0=y,relu0=rl,pool0=p,dense0=o)
    os.makedirs(t+'_npy',exist_ok=True); os.makedirs(t+'_bin',exist_ok=True); os.makedirs(t+'_san',exist_ok=True); os.makedirs(t+'_flat',exist_ok=True)
    for k,v in own.items(): np.save(f'{t}_npy/{k}.npy',v)
    np.savez(t+'.npz',**own)
    san={'x':x,'_0_Conv_output_0':y,'_1_Relu_output_0':rl,'_2_MaxPool_output_0':p,'logits':o}
    for k,v in san.items(): v.tofile(f'{t}_bin/{k}.bin'); np.save(f'{t}_san/{k}.npy',v); np.save(f'{t}_flat/{k}.npy',v.ravel())
    np.save(t+'_out.npy',o)
P
for t in good bad; do
    for k in _npy .npz _bin _san _flat; do
        "$PLUMB" compare $t$k m.onnxtxt --no-session --json >log.json; echo "$t$k exit $?"
        /usr/bin/python3 -c 'import json; s = json.load(open("log.json")); print(s["verdict"], s["at_fault"], [(b["op"], b["where"]) for b in s["blame"]], "%d of %d outputs" % (s["coverage"]["outputs_compared"], s["coverage"]["outputs"]))'
    done
    "$PLUMB" compare ${t}_out.npy m.onnxtxt --no-session >log 2>err; echo "one file without its input: exit $?"
    "$PLUMB" compare ${t}_out.npy m.onnxtxt --input x=${t}_npy/x.npy --no-session >log; echo "one file: exit $?"
done
"$PLUMB" compare bad_npy m.onnxtxt --no-session --json >log.json
/usr/bin/python3 -c 'import json; print(sorted({p["paired_by"] for p in json.load(open("log.json"))["sync_points"]}))'
"$PLUMB" compare bad_npy m.onnxtxt --no-session --strict-pairs >log; echo "exit $?"; head -1 log
