package shape

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"sf2loki/pkg/fnmatch"
)

// Rate is the part of the rows of some event types that is kept.
type Rate struct {
	eventTypes fnmatch.Pattern // lower case
	part       float64
}

// shares is how finely rates are told apart.
const shares = 10000

// ParseRates reads rates as flags have them: RATE for all event types, or
// TYPE=RATE, where TYPE may be a pattern. The first that fits a type counts,
// and those for all types come last.
func ParseRates(items []string) ([]Rate, error) {
	var rates, last []Rate
	for _, item := range items {
		pattern, text, named := strings.Cut(item, "=")
		if !named {
			pattern, text = "*", item
		}
		part, err := strconv.ParseFloat(text, 64)
		if err != nil || !(part >= 1.0/shares && part <= 1) {
			return nil, fmt.Errorf("%q: a rate is a number from 0.0001 to 1", item)
		}
		p, err := compileType(pattern)
		if err != nil {
			return nil, err
		}
		if named {
			rates = append(rates, Rate{p, part})
		} else {
			last = append(last, Rate{p, part})
		}
	}
	if len(last) > 1 {
		return nil, fmt.Errorf("%q: there is another rate for all event types", items[len(items)-1])
	}
	return append(rates, last...), nil
}

// compileType makes a pattern for event types, whose case does not matter.
func compileType(text string) (fnmatch.Pattern, error) {
	if text == "" {
		return fnmatch.Pattern{}, fmt.Errorf("an event type has no name")
	}
	return fnmatch.Compile(strings.ToLower(text))
}

// rateOf is the part of an event type's rows that is kept. names are what the
// type is called, its topic for instance.
func (s *Shape) rateOf(names ...string) float64 {
	for _, r := range s.cfg.Rates {
		for _, name := range names {
			if r.eventTypes.Match(strings.ToLower(name)) {
				return r.part
			}
		}
	}
	return 1
}

// Sampled tells whether some rows of the type are left out, so that Keep needs
// a key.
func (t *Type) Sampled() bool { return t.part < 1 }

// Keep decides, by the key alone, whether the row of that key is kept. It is
// asked after the rules.
func (t *Type) Keep(key []byte) bool { return t.part >= 1 || float64(share(key)) < t.part*shares }

// share is where a key lies among all.
func share(key []byte) uint64 {
	sum := sha256.Sum256(key)
	return binary.BigEndian.Uint64(sum[:8]) % shares
}
