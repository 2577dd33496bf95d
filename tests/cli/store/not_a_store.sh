mkdir other
echo thesis >other/thesis.tex
for verb in ls verify gc frob; do
    "$PLUMB" store $verb other
    echo "exit $?"
done
"$PLUMB" store gc absent
echo "exit $?"
ls other
