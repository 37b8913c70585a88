package secret

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// grams are what is looked for: each stretch of eight bytes of the secrets, and
// the short ones whole; sorted.
type grams []string

func gramsOf(secrets []string) grams {
	var g grams
	for _, s := range secrets {
		g = append(g, s[:min(len(s), Piece)])
		for i := 1; i+Piece <= len(s); i++ {
			g = append(g, s[i:i+Piece])
		}
	}
	slices.Sort(g)
	return slices.Compact(g)
}

// match is under way: the grams from lo to hi begin with the size bytes that
// have been read since from.
type match struct{ lo, hi, size, from int }

// read goes on with m by one byte; false: no gram does so.
func (g grams) read(m match, c byte) (match, bool) {
	of := g[m.lo:m.hi]
	at := func(i int) int {
		if m.size == len(of[i]) {
			return -1 // a short one, that was found
		}
		return int(of[i][m.size])
	}
	lo := sort.Search(len(of), func(i int) bool { return at(i) >= int(c) })
	if lo == len(of) || at(lo) != int(c) {
		return m, false
	}
	hi := lo + sort.Search(len(of)-lo, func(i int) bool { return at(lo+i) > int(c) })
	return match{m.lo + lo, m.lo + hi, m.size + 1, m.from}, true
}

// search is one search in a text.
type search struct {
	grams
	least int
	spans []span
	ahead [window + 1][]match // that go on so many bytes further; a ring
}

// find tells where grams of at least so many bytes stand in text. It goes
// through the text once, and follows all matches that are under way together: a
// character may be read in more than one way, and each way goes on.
func (g grams) find(text string, least int) []span {
	s := &search{grams: g, least: least}
	var room [4]form
	for i := range len(text) {
		here := &s.ahead[i%len(s.ahead)]
		for _, f := range formsAt(room[:0], text, i) {
			for _, m := range *here {
				s.step(m, f.char, i+f.n)
			}
			for k := range len(f.char) { // what is escaped as one may be several bytes
				s.step(match{0, len(g), 0, i}, f.char[k:], i+f.n)
			}
		}
		*here = (*here)[:0]
	}
	return s.spans
}

// step goes on with m by a character that ends at to.
func (s *search) step(m match, char string, to int) {
	for k := range len(char) {
		var ok bool
		if m, ok = s.read(m, char[k]); !ok {
			return
		}
		if m.size == len(s.grams[m.lo]) && m.size >= s.least {
			s.spans = append(s.spans, span{m.from, to})
		}
	}
	if m.size < Piece {
		keep(&s.ahead[to%len(s.ahead)], m)
	}
}

// keep adds m to the matches that go on at a place. Of two that go on alike the
// longer says all.
func keep(place *[]match, m match) {
	for i, o := range *place {
		if o.lo == m.lo && o.size == m.size {
			(*place)[i].from = min(o.from, m.from)
			return
		}
	}
	*place = append(*place, m)
}

// span is a part of a text.
type span struct{ from, to int }

// cover puts one mark over spans that overlap or touch. A backslash that would
// be left alone goes with what it escaped, so that JSON remains JSON.
func cover(text string, spans []span) string {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].from <= s.to; i++ {
			s.to = max(s.to, spans[i].to)
		}
		before := text[done:s.from]
		if (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1 {
			before = before[:len(before)-1]
		}
		b.WriteString(before)
		b.WriteString(Mark)
		done = s.to
	}
	b.WriteString(text[done:])
	return b.String()
}
