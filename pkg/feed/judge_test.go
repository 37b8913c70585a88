package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sf2loki/pkg/salesforce"
)

// Each refusal is for one row source, for all of them, for later or for good.
func TestJudge(t *testing.T) {
	answer := func(k salesforce.Kind) error {
		return fmt.Errorf("query X: %w", &salesforce.Error{Kind: k, Status: 400})
	}
	for want, errs := range map[Verdict][]error{
		Ends: {
			errors.New("disk full"), context.Canceled,
			answer(salesforce.KindAuth), answer(salesforce.KindConfig),
		},
		Refused: {
			answer(salesforce.KindField), answer(salesforce.KindType), answer(salesforce.KindQuery),
			answer(salesforce.KindBigObject), answer(salesforce.KindPermission),
		},
		Later: {
			ErrLeft, fmt.Errorf("X: %w", &OddAnswer{"no records"}), answer(salesforce.KindNotJSON), answer(salesforce.KindTimeout),
			answer(salesforce.KindTransport), answer(salesforce.KindTransient), answer(salesforce.KindOther),
			answer(salesforce.KindLocator), answer(salesforce.KindQueryTimeout),
		},
		Throttle: {
			answer(salesforce.KindLimitTotal), answer(salesforce.KindLimitConcurrent), answer(salesforce.KindReserve), answer(salesforce.KindLoginRate),
		},
		Gone: {answer(salesforce.KindNotFound)},
	} {
		for _, err := range errs {
			if got := Judge(err); got != want {
				t.Errorf("%v is judged %d, want %d", err, got, want)
			}
		}
	}
	if got := Status(answer(salesforce.KindNotFound)); got != 400 {
		t.Errorf("status %d", got)
	}
	if got := Status(errors.New("no answer")); got != 0 {
		t.Errorf("without an answer: status %d", got)
	}
}

// A window has keys of its own, so that no backfill moves a live position.
func TestWindowPrefix(t *testing.T) {
	day := time.Date(2026, 7, 1, 2, 0, 0, 0, time.FixedZone("", 2*3600))
	for want, w := range map[string]Window{
		"":                              {},
		"window=/2026-07-01T00:00:00Z:": {Until: day},
		"window=2026-07-01T00:00:00Z/2026-07-02T00:00:00Z:": {Since: day, Until: day.AddDate(0, 0, 1)},
	} {
		if got := w.Prefix(); got != want || w.Fixed() != (want != "") {
			t.Errorf("prefix %q (fixed %t), want %q", got, w.Fixed(), want)
		}
	}
	if got := (Window{Since: day}).Prefix(); got != "" {
		t.Errorf("a beginning alone is %q", got)
	}
}
