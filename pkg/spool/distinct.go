package spool

import (
	"encoding/binary"
	"slices"
)

// Distinct counts different ids in eight bytes each: what was captured twice,
// because a program was killed between capture and acknowledgement, is one
// entry.
type Distinct struct{ ids []uint64 }

// Add counts a record.
func (d *Distinct) Add(id ID) { d.ids = append(d.ids, binary.BigEndian.Uint64(id[:8])) }

// Count is how many different ones there were.
func (d *Distinct) Count() int64 {
	slices.Sort(d.ids)
	d.ids = slices.Compact(d.ids)
	return int64(len(d.ids))
}
