package main

import (
	"fmt"
	"strings"
	"testing"

	"sf2loki/pkg/spool"
)

// However many groups there are, so many are told apart.
func TestManyGroups(t *testing.T) {
	s := &stats{by: []string{"source", "reason"}}
	groups := map[string]*spool.Summary{}
	for i := range mostGroups + 3 {
		s.group(groups, fmt.Sprint(i)+keySep+"x", spool.Window{}).Records++
	}
	s.group(groups, "x"+keySep+strings.Repeat("x", longGroup), spool.Window{}).Records++
	if other := groups["other"+keySep+"other"]; len(groups) != mostGroups+1 || other == nil || other.Records != 4 {
		t.Errorf("%d groups, other is %+v", len(groups), other)
	}
}
