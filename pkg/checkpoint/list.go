package checkpoint

import (
	"strings"
	"time"
)

// Row is one position as a list shows it.
type Row struct {
	Key      string
	Parts    Key
	Value    string
	Position string    // for people
	Time     time.Time // of the last record, else what the position tells; zero: unknown
}

// Age is how long before now the row's time is; false when it has none.
func (r Row) Age(now time.Time) (time.Duration, bool) {
	return now.Sub(r.Time), !r.Time.IsZero()
}

// List returns the positions of doc in order, those that match any of the
// patterns, or all when there are none.
func List(doc Document, patterns []string) []Row {
	var rows []Row
	for key, value := range doc.Positions() {
		if !matchAny(patterns, key) {
			continue
		}
		row := Row{Key: key, Parts: ParseKey(key), Value: value}
		row.Position = Describe(row.Parts, value)
		if t, ok := doc.RecordTime(key); ok {
			row.Time = t
		} else if t, ok := PositionTime(row.Parts, value); ok {
			row.Time = t
		}
		rows = append(rows, row)
	}
	return rows
}

func matchAny(patterns []string, key string) bool {
	for _, pattern := range patterns {
		if match(pattern, key) {
			return true
		}
	}
	return len(patterns) == 0
}

// match reports whether text fits pattern, in which * is any text, slashes and
// colons included, for topics have them.
func match(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return len(text) >= len(last) && strings.HasSuffix(text, last)
}
