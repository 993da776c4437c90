# Sends the streams of the demo (ops/demo/streams.py), each with its own delay of labels, side by side.
# RATE and LIMIT: examples of each stream, per second and in all.
set -eu

until areba topics check -c /etc/areba/areba.yaml; do sleep 2; done

running=
replay() { # source, milliseconds of event time between examples, delay of labels, share of labels that never come
  areba-replay run "$1" --interval-ms "$2" --label-delay "$3" --unlabelled-share "$4" --seed 1 --rate "$RATE" --limit "$LIMIT" &
  running="$running $!"
}

replay fraud:limit=40000 360 lognormal:4m,0.7 0.01
replay forest:limit=20000 720 uniform:1m-6m 0.02
replay mnist:limit=6060 2376 exponential:2m 0.02
replay sine:imbalance=1,drift=posterior,length=20000,seed=1 720 fixed:100ev 0.02
replay circle:imbalance=1,drift=likelihood,length=20000,seed=2 720 fixed:1m 0.02
replay sea:imbalance=10,drift=prior,length=20000,seed=3 720 positive=uniform:10s-1m,negative=exponential:3m 0.02

for process in $running; do wait "$process"; done
