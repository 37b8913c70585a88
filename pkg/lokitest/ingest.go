package lokitest

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// stream is what the ingester holds of one stream.
type stream struct {
	labels  string
	pairs   []Label
	entries []Entry
	seen    map[uint64][]int // indexes in entries, by hash
	newest  int64
	any     bool
	last    Entry // the last one appended
	used    time.Time
	rate    *rate.Limiter
}

// maxReported is how many entries of a stream an answer names.
const maxReported = 10

// ingest stores what it can. The answer is that of the last stream, whatever
// became of the others.
func (s *Server) ingest(d *distributor, streams []accepted) *refusal {
	var answer *refusal
	for i := range streams {
		a := &streams[i]
		st := d.t.streams[a.labels]
		if st == nil {
			if limit := d.t.limits.MaxStreams; limit > 0 && d.t.active(d.now) >= limit {
				d.discard("stream_limit", len(a.entries))
				answer = refuse(http.StatusTooManyRequests, "maximum active stream limit exceeded when trying to create stream %s, "+
					"reduce the number of active streams (reduce labels or reduce label values), or contact your Loki administrator "+
					"to see if the limit can be increased, user: '%s'", a.labels, d.t.name)
				continue
			}
			st = &stream{labels: a.labels, pairs: a.pairs, seen: map[uint64][]int{}}
			d.t.streams[a.labels] = st
		}
		st.used = d.now
		answer = st.push(d, a.entries)
	}
	return answer
}

// active counts the streams that were pushed to of late.
func (t *tenant) active(now time.Time) int {
	n := 0
	for _, st := range t.streams {
		if now.Sub(st.used) <= t.limits.StreamIdle {
			n++
		}
	}
	return n
}

// failure is an entry that the ingester refuses.
type failure struct {
	entry  *Entry
	status int
	reason string
	text   string
}

func (st *stream) push(d *distributor, entries []Entry) *refusal {
	l := &d.t.limits
	store, failures := st.validate(d, entries)
	if l.StreamRate > 0 && l.ShardStreams && len(store) > 0 { // all or nothing
		bytes := 0
		for _, e := range store {
			bytes += size(e)
		}
		if !st.limiter(l).AllowN(d.now, bytes) {
			for _, e := range store {
				failures = append(failures, st.overRate(l, e))
			}
			store = nil
		}
	}
	for _, e := range store {
		st.append(d.s, e)
	}
	if len(failures) == 0 {
		return nil
	}
	return st.report(d, failures, len(entries))
}

// validate judges the entries in their order: each one moves the window for
// those that follow.
func (st *stream) validate(d *distributor, entries []Entry) (store []*Entry, failures []failure) {
	l := &d.t.limits
	last, newest, started := st.last, st.newest, st.any
	for i := range entries {
		e := &entries[i]
		if started && e.Nanos == last.Nanos && e.Line == last.Line && slices.Equal(e.Metadata, last.Metadata) {
			d.s.stats.Duplicates++
			continue
		}
		if l.StreamRate > 0 && !l.ShardStreams && !st.limiter(l).AllowN(d.now, size(e)) {
			failures = append(failures, st.overRate(l, e))
			continue
		}
		if oldest := newest - int64(l.MaxChunkAge/2); started && e.Nanos < oldest {
			failures = append(failures, failure{e, http.StatusBadRequest, "too_far_behind", fmt.Sprintf(
				"entry too far behind, entry timestamp is: %s, oldest acceptable timestamp is: %s", stamp(e.Nanos), stamp(oldest))})
			continue
		}
		if !started || e.Nanos > newest {
			newest = e.Nanos
		}
		last, started = *e, true
		store = append(store, e)
	}
	return store, failures
}

func stamp(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

func (st *stream) limiter(l *Limits) *rate.Limiter {
	if st.rate == nil || st.rate.Limit() != rate.Limit(l.StreamRate) || st.rate.Burst() != l.StreamBurst {
		st.rate = rate.NewLimiter(rate.Limit(l.StreamRate), l.StreamBurst)
	}
	return st.rate
}

func (st *stream) overRate(l *Limits, e *Entry) failure {
	return failure{e, http.StatusTooManyRequests, "per_stream_rate_limit", fmt.Sprintf(
		"Per stream rate limit exceeded (limit: %s/sec) while attempting to ingest for stream '%s' totaling %s, consider splitting a stream "+
			"via additional labels or contact your Loki administrator to see if the limit can be increased",
		byteSize(l.StreamRate), st.labels, byteSize(size(e)))}
}

// byteSize prints whole units.
func byteSize(n int) string {
	switch {
	case n > 0 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGB", n>>30)
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKB", n>>10)
	}
	return fmt.Sprintf("%dB", n)
}

// report words the answer for entries that failed; the status is the last
// one's.
func (st *stream) report(d *distributor, failures []failure, of int) *refusal {
	var b strings.Builder
	for i, f := range failures {
		d.discard(f.reason, 1)
		if i < maxReported {
			fmt.Fprintf(&b, "entry with timestamp %s ignored, reason: '%s',\n", time.Unix(0, f.entry.Nanos).UTC(), f.text)
		}
	}
	fmt.Fprintf(&b, "user '%s', total ignored: %d out of %d for stream: %s", d.t.name, len(failures), of, st.labels)
	return &refusal{failures[len(failures)-1].status, b.String()}
}

var hashSeed = maphash.MakeSeed()

// append stores an entry, unless it is there already.
func (st *stream) append(s *Server, e *Entry) {
	if !st.any || e.Nanos > st.newest {
		st.newest = e.Nanos
	}
	st.last, st.any = *e, true
	if s.config.Forget {
		s.stats.Stored++
		s.stats.LineBytes += int64(len(e.Line))
		return
	}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, e.Nanos)
	_, _ = h.WriteString(e.Line)
	key := h.Sum64()
	for _, i := range st.seen[key] {
		old := &st.entries[i]
		if old.Nanos == e.Nanos && old.Line == e.Line && slices.Equal(old.Metadata, e.Metadata) {
			s.stats.Duplicates++
			return
		}
	}
	st.seen[key] = append(st.seen[key], len(st.entries))
	stored := *e
	stored.Stream, stored.Labels = st.labels, st.pairs
	st.entries = append(st.entries, stored)
	s.stats.Stored++
	s.stats.LineBytes += int64(len(e.Line))
}

// shardState is what a distributor knows of a stream's speed.
type shardState struct {
	pushes []shardPush // of the last second
	next   int         // shard that the next push begins with
}

type shardPush struct {
	at    time.Time
	bytes int
}

// shard deals the entries of each fast stream out, round-robin, to streams
// with one more label. A stream's rate is what came within a second, this push
// counted.
func (t *tenant) shard(streams []accepted, now time.Time) []accepted {
	if !t.limits.ShardStreams || t.limits.ShardDesiredRate <= 0 {
		return streams
	}
	var out []accepted
	for _, a := range streams {
		state := t.shards[a.labels]
		if state == nil {
			state = &shardState{}
			t.shards[a.labels] = state
		}
		bytes := 0
		for i := range a.entries {
			bytes += size(&a.entries[i])
		}
		n := state.count(now, bytes, t.limits.ShardDesiredRate)
		if n <= 1 {
			out = append(out, a)
			continue
		}
		out = append(out, a.deal(n, state.next)...)
		state.next = (state.next + len(a.entries)) % n
	}
	return out
}

func (s *shardState) count(now time.Time, bytes, desired int) int {
	rate := bytes
	s.pushes = slices.DeleteFunc(s.pushes, func(p shardPush) bool { return now.Sub(p.at) > time.Second })
	for _, p := range s.pushes {
		rate += p.bytes
	}
	s.pushes = append(s.pushes, shardPush{now, bytes})
	return int(math.Ceil(float64(rate) / float64(desired)))
}

func (a *accepted) deal(n, first int) []accepted {
	shards := make([]accepted, n)
	for i := range shards {
		pairs := append(slices.Clone(a.pairs), Label{"__stream_shard__", fmt.Sprint(i)})
		sortLabels(pairs)
		shards[i] = accepted{labels: labelString(pairs), pairs: pairs}
	}
	for i, e := range a.entries {
		s := &shards[(first+i)%n]
		s.entries = append(s.entries, e)
	}
	return slices.DeleteFunc(shards, func(s accepted) bool { return len(s.entries) == 0 })
}
