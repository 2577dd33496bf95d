/usr/bin/python3 - >m.onnxtxt <<'EOF'
n = 10000
print("<ir_version: 8, opset_import: [\"\" : 17]>\ng (bool c) => (bool y) {")
print("y = If <then_branch = b () => (bool y) { " * n + "y = Identity(c)" + " }>(c)" * n)
print("}")
EOF
"$PLUMB" info m.onnxtxt
