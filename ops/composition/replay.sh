# Sends the streams of the demo (ops/demo/streams.py), each with its own delay of labels, side by side.
# RATE and LIMIT: examples of each stream, per second and in all.
set -eu

until areba topics check -c /etc/areba/areba.yaml; do sleep 2; done

running=
replay() { # source, examples, milliseconds of event time between two, delay of labels, share of labels that never come
  limit=$(($2 < LIMIT ? $2 : LIMIT))
  areba-replay run "$1" --limit "$limit" --interval-ms "$3" --label-delay "$4" --unlabelled-share "$5" --seed 1 --rate "$RATE" &
  running="$running $!"
}

replay fraud 40000 360 lognormal:4m,0.7 0.01
replay forest 20000 720 uniform:1m-6m 0.02
replay mnist 6060 2376 exponential:2m 0.02
replay sine:imbalance=1,drift=posterior,length=20000,seed=1 20000 720 fixed:100ev 0.02
replay circle:imbalance=1,drift=likelihood,length=20000,seed=2 20000 720 fixed:1m 0.02
replay sea:imbalance=10,drift=prior,length=20000,seed=3 20000 720 positive=uniform:10s-1m,negative=exponential:3m 0.02

for process in $running; do wait "$process"; done
