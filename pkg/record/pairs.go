package record

import "bytes"

// pairs is what a Reader keeps of one kind of object of strings. The records of
// a stream have the same labels, and often the same metadata: an object whose
// text is that of the record before is not parsed again.
type pairs struct {
	buf []Pair // of the current record

	last  []byte // the text of the last object, if it can be remembered
	known []Pair // its pairs, which lie in it; nil until it comes again
}

func newPairs() pairs { return pairs{buf: make([]Pair, 0, 16)} }

// keepPairs is how many pairs keep their place for the next object.
const keepPairs = 4096

// rememberMost bounds the text that is remembered: a longer one does not come
// again.
const rememberMost = 4 << 10

// pairs parses an object of strings. All pairs of a name that repeats are
// kept, for whoever must judge them.
func (r *Reader) pairs(name string, dst *[]Pair, of *pairs, p int) (int, error) {
	s := &r.s
	switch s.win[p] {
	case '{':
	case 'n':
		*dst = nil
		return s.literal(p, "null")
	default:
		return r.wrong(name, "an object", p)
	}
	if len(of.last) > 0 && bytes.HasPrefix(s.win[p:], of.last) {
		*dst = of.again()
		return p + len(of.last), nil
	}
	lines, used, fixed := s.lines, s.used, len(s.fixed)
	end, err := r.parsePairs(of, p)
	if err != nil {
		return end, err
	}
	*dst = of.buf
	of.last, of.known = of.last[:0], nil
	asItStands := s.used == used && len(s.fixed) == fixed && s.lines == lines && r.fault == ""
	if asItStands && end-p <= rememberMost {
		of.last = append(of.last, s.win[p:end]...)
	}
	return end, nil
}

// again returns the pairs of the object that is remembered. Nothing in it is
// escaped.
func (of *pairs) again() []Pair {
	if of.known != nil {
		return of.known
	}
	of.known = of.buf[:0]
	for name, value := range members(of.last) {
		if value[0] == '"' { // else it is null
			of.known = append(of.known, Pair{name[:len(name):len(name)], value[1 : len(value)-1 : len(value)-1]})
		}
	}
	of.buf = of.known
	return of.known
}

// parsePairs parses the object at p into of.buf.
func (r *Reader) parsePairs(of *pairs, p int) (int, error) {
	s := &r.s
	if of.buf = of.buf[:0]; cap(of.buf) > keepPairs {
		of.buf = newPairs().buf
	}
	p, err := s.space(p + 1)
	if err != nil {
		return p, err
	}
	more := s.win[p] != '}'
	if !more {
		p++
	}
	for more {
		var pair Pair
		if pair.Name, p, err = s.key(p); err != nil {
			return p, err
		}
		if p, err = r.string("a value of labels or structured_metadata", &pair.Value, p); err != nil {
			return p, err
		}
		if pair.Value != nil {
			of.buf = append(of.buf, pair)
		}
		if p, more, err = s.comma(p); err != nil {
			return p, err
		}
	}
	return p, nil
}
