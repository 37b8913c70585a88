package sobject

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
)

// edit is an API that changes rows: by Id, a member to another text.
type edit struct {
	API
	change map[string]string
}

var member = regexp.MustCompile(`"LoginTime":"[^"]*"`)

func (e *edit) Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for raw, err := range e.API.Query(ctx, soql) {
			for id, to := range e.change {
				if strings.Contains(string(raw), `"Id":"`+id) {
					raw = member.ReplaceAll(raw, []byte(to))
				}
			}
			if !yield(raw, err) {
				return
			}
		}
	}
}
