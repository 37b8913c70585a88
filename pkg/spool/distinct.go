package spool

import (
	"encoding/binary"
	"slices"
)

// distinct counts different ids in eight bytes each: what was captured twice,
// because a program was killed between capture and acknowledgement, is one
// entry.
type distinct struct{ ids []uint64 }

// add counts a record.
func (d *distinct) add(id ID) { d.ids = append(d.ids, binary.BigEndian.Uint64(id[:8])) }

// count is how many different ones there were.
func (d *distinct) count() int64 {
	slices.Sort(d.ids)
	d.ids = slices.Compact(d.ids)
	return int64(len(d.ids))
}
