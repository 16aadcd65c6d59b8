#!/bin/sh
# Three hospitals on one machine, each a process with its own key, table and record:  sh local.sh [folder]
# On three machines the same commands run one by one, and only certificates and the plan travel (docs/federation.md).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-federation-demo}
mkdir -p "$folder"
cp "$here/schema.toml" "$here/members.toml" "$folder"
cd "$folder"

# stand-ins for the hospitals' tables
python - <<'TABLES'
import csv, random

for number, (name, records) in enumerate([("north", 400), ("south", 300), ("west", 500)]):
    draw = random.Random(number)
    with open(f"{name}.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "age", "days", "ward", "readmitted"])
        for i in range(records):
            age, days = draw.uniform(18, 100), draw.uniform(0, 30)
            risk = (age - 59) / 20 + (days - 15) / 8 + draw.gauss(0, 1)
            ward = draw.choice(["surgery", "medicine", "other"])
            table.writerow([f"{name}-{i}", round(age), round(days), ward, "yes" if risk > 0 else "no"])
TABLES

number=1
for name in north south west; do
    sordino identity $name --number $number --folder $name
    number=$((number + 1))
done

sordino federation init members.toml --schema schema.toml --epsilon 2 --delta 1e-6 --steps 30 --identifiers id \
    --folder north --out plan.json
hash=$(python -c "from sordino.federation.signed_plan import SignedPlan; print(SignedPlan.load('plan.json').digest)")
for name in north south west; do
    sordino federation join plan.json --folder $name --accept "$hash" > /dev/null
done

for name in north south; do
    sordino federation run $name.csv --folder $name > $name/run.log 2>&1 &
done
sordino federation run west.csv --folder west
wait
sordino federation status --folder west
sordino verify west/model.sordino
