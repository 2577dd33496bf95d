# What each input gets, and how that is overridden.
cat >m.onnxtxt <<'X'
<ir_version: 8, opset_import: ["" : 13]>
g (int64[batch,n] input_ids, int64[batch,total] attention_mask, int64[batch,n] position_ids, int32[batch] seqlens_k, float[1] gain,
   float[batch,2,past,4] past_key) => (float[batch,n] logits, float[batch,2,total,4] present_key)
{ e = Cast <to = 1> (input_ids) logits = Mul(e, gain) present_key = Identity(past_key) }
X
"$PLUMB" generate m.onnxtxt --explain-inputs
"$PLUMB" generate m.onnxtxt --explain-inputs --feed gain=ones --feed position_ids=zeros | grep told
"$PLUMB" generate "$TESTS/generate/rnn.onnxtxt" --explain-inputs
"$PLUMB" generate "$TESTS/generate/rnn.onnxtxt" --explain-inputs --state y:h_in
