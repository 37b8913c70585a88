package salesforce

import (
	"errors"
	"testing"

	"sf2loki/pkg/sftest"
)

// An answer that ends before all that it told of has come is not taken for
// whole, whichever page that shows on.
func TestQueryShort(t *testing.T) { // peers 7
	for _, page := range []int{0, 3} {
		for _, short := range []int{1, 5, -4} {
			org := newOrg(t, sftest.Config{PageSize: page})
			insertLogins(org, 8)
			org.Fault("/query", sftest.Fault{Short: short})
			c := newClient(t, configOf(org))
			recs, err := all(c, listing)
			if !errors.Is(err, ErrShort) || len(recs) != min(8-short, 8) {
				t.Errorf("pages of %d, %d short: %d records, %v", page, short, len(recs), err)
			}
			wantKind(t, err, KindLocator)
			if recs, err := all(c, listing); err != nil || len(recs) != 8 {
				t.Errorf("asked again: %d records, %v", len(recs), err)
			}
		}
	}
}
