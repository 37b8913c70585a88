package loki

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"
	"unsafe"

	"sf2loki/pkg/record"
)

// identityLabels stay labels whatever --allow-label says: what an entry is,
// and whose.
var identityLabels = []string{"source", "event_type", "job", "service_name", "environment", "sf_org_id", "org"}

// labelCache finds the label set of a record. Records of one file have the
// same labels, so most of the time it is the one of the record before.
type labelCache struct {
	last *labelSet
	sets map[uint64][]*labelSet
	n    int // of sets
	size int // of their texts
	seed maphash.Seed
	key  []byte
}

// labelSet is one set of labels as it comes in, with everything that follows
// from it alone.
type labelSet struct {
	came    []record.Pair
	labels  []record.Pair // to be pushed, without the hour
	demoted []record.Pair // become metadata
	problem *Problem
	account *SourceAccount

	hour   int64
	recent *stream // of that hour
	used   time.Duration
}

func newLabelCache() labelCache {
	return labelCache{sets: map[uint64][]*labelSet{}, seed: maphash.MakeSeed()}
}

// largeSet is larger than any set that Loki takes by default. Such sets are
// not remembered: many of them would fill the memory.
const largeSet = 64 << 10

func (c *labelCache) get(e *Engine, labels []record.Pair) *labelSet {
	if c.last != nil && equalPairs(c.last.came, labels) {
		return c.last
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	for i := range labels {
		h.Write(labels[i].Name)
		h.WriteByte(0)
		h.Write(labels[i].Value)
		h.WriteByte(0)
	}
	sum := h.Sum64()
	for _, set := range c.sets[sum] {
		if equalPairs(set.came, labels) {
			c.use(e, set)
			return set
		}
	}
	size := setBytes(labels)
	if size > largeSet {
		return e.newLabelSet(labels)
	}
	set := e.newLabelSet(clonePairs(labels))
	if c.n++; c.n > many || c.size+size > manyBytes {
		clear(c.sets)
		c.n, c.size = 1, 0
	}
	c.size += size
	c.sets[sum] = append(c.sets[sum], set)
	c.use(e, set)
	return set
}

func (c *labelCache) use(e *Engine, set *labelSet) {
	c.last = set
	set.used = e.now()
}

func (c *labelCache) sweep(now, idle time.Duration) {
	c.n, c.size = 0, 0
	for sum, sets := range c.sets {
		sets = slices.DeleteFunc(sets, func(s *labelSet) bool { return s != c.last && now-s.used > idle })
		if len(sets) == 0 {
			delete(c.sets, sum)
		} else {
			c.sets[sum] = sets
			c.n += len(sets)
			for _, set := range sets {
				c.size += setBytes(set.came)
			}
		}
	}
}

func equalPairs(a, b []record.Pair) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Value, b[i].Value) || !bytes.Equal(a[i].Name, b[i].Name) {
			return false
		}
	}
	return true
}

// setBytes is what labels take in memory.
func setBytes(labels []record.Pair) int {
	return MetadataBytes(labels) + len(labels)*int(unsafe.Sizeof(record.Pair{}))
}

func clonePairs(pairs []record.Pair) []record.Pair {
	clones := make([]record.Pair, len(pairs))
	for i, p := range pairs {
		clones[i] = record.Pair{Name: bytes.Clone(p.Name), Value: bytes.Clone(p.Value)}
	}
	return clones
}

// newLabelSet returns a set that is valid as long as the labels are.
func (e *Engine) newLabelSet(labels []record.Pair) *labelSet {
	set := &labelSet{account: e.accountOfLabels(labels), came: labels}
	if e.cfg.AllowLabels == nil {
		set.labels = slices.Clip(labels)
	} else {
		for _, p := range labels {
			if e.staysLabel(string(p.Name)) {
				set.labels = append(set.labels, p)
			} else {
				set.demoted = append(set.demoted, p)
			}
		}
	}
	for _, p := range e.cfg.Labels {
		if !hasPair(set.labels, p.Name) {
			set.labels = append(set.labels, p)
		}
	}
	set.problem = e.cfg.Limits.CheckLabels(e.withHour(set.labels, 0))
	if most := e.cfg.Limits.Metadata; set.problem == nil && most > 0 && len(set.demoted) > most {
		set.problem = problem(record.MetadataTooMany, "%d labels that become structured metadata, limit %d", len(set.demoted), most)
	}
	return set
}

func (e *Engine) staysLabel(name string) bool {
	return slices.Contains(e.cfg.AllowLabels, name) || slices.Contains(identityLabels, name) || name == e.cfg.HourLabel
}

func hasPair(pairs []record.Pair, name []byte) bool {
	return slices.ContainsFunc(pairs, func(p record.Pair) bool { return bytes.Equal(p.Name, name) })
}

const hourNanos = int64(time.Hour)

// withHour adds the hour label, unless the record has one of that name. The
// hour is the entry's own, so that every copy of an entry, whenever and in
// whatever order it arrives, is in one stream.
func (e *Engine) withHour(labels []record.Pair, hour int64) []record.Pair {
	if e.cfg.HourLabel == "" || hasPair(labels, []byte(e.cfg.HourLabel)) {
		return labels
	}
	text := time.Unix(0, hour*hourNanos).UTC().Format("2006-01-02T15")
	return append(slices.Clip(labels), record.Pair{Name: []byte(e.cfg.HourLabel), Value: []byte(text)})
}

// stream returns the stream of an entry with the time ts.
func (s *labelSet) stream(e *Engine, ts int64) *stream {
	hour := int64(0)
	if e.cfg.HourLabel != "" {
		hour = ts / hourNanos
		if ts < hour*hourNanos {
			hour--
		}
	}
	if s.recent == nil || s.hour != hour || s.recent.gone {
		e.labels.key = AppendLabels(e.labels.key[:0], e.withHour(s.labels, hour))
		s.recent, s.hour = e.stream(e.labels.key), hour
		s.recent.used = e.now()
		s.used = s.recent.used
	}
	return s.recent
}
