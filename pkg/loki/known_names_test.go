package loki

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"sf2loki/pkg/record"
)

// What is remembered of names changes neither what is found wrong nor what is
// sent, in whatever order entries of all kinds come.
func TestKnownNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "b", "B", "a.b", "a_b", "zz", "_", "", "1a", "key_1a", "field_10", "field_2"}
	limits := DefaultLimits()
	limits.MetadataBytes = 60
	var known knownNames
	var last []record.Pair
	for range 20000 {
		metadata := last
		if rng.IntN(3) == 0 {
			metadata = nil
			for range rng.IntN(6) {
				metadata = append(metadata, pairs(names[rng.IntN(len(names))], "")...)
			}
		}
		for i := range metadata {
			metadata[i].Value = bytes.Repeat([]byte{byte('0' + rng.IntN(2))}, rng.IntN(20))
		}
		last = metadata
		got, want := limits.checkMetadata(metadata, &known), limits.checkMetadata(metadata, nil)
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Fatalf("%q: %v, want %v", metadata, got, want)
		}
		if got != nil {
			continue
		}
		entry := AppendEntry(nil, 1, []byte("line"), metadata)
		if ordered := AppendEntry(nil, 1, []byte("line"), known.inOrder(metadata)); !bytes.Equal(ordered, entry) {
			t.Fatalf("%q: %q, want %q", metadata, ordered, entry)
		}
	}
}
