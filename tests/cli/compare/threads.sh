# The same bits for any number of threads; one tensor is large enough to be shared, some are not.
/usr/bin/python3 "$TESTS/st.py" a.safetensors 'big=float32:np.arange(3000000)%1001/7' 'mid=float16:np.arange(70001)%97' 'small=float32:[1,2]' 'd=float64:np.arange(40000)/3'
/usr/bin/python3 "$TESTS/st.py" b.safetensors 'big=float32:np.arange(3000000)%1001/7*1.0001' 'mid=float16:np.arange(70001)%96' 'small=float32:[1,2.1]' 'd=float64:np.arange(40000)/3.0001'
for n in 1 2 3; do
    "$PLUMB" compare a.safetensors b.safetensors --no-session --json --threads $n | grep -v '"created"\|"peak_rss"\|"open"\|"compare"\|"trace"' >$n.json
done
cmp 1.json 2.json && cmp 1.json 3.json && grep -c sum_sq 1.json
