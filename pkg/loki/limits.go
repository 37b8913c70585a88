package loki

import "time"

// Limits are what the server is expected to take. A limit that is zero is not
// judged. The defaults are Loki's own (limits_config, named beside each); Loki
// does not publish a tenant's limits, so an operator who raised them there
// raises them here.
type Limits struct {
	Labels        int           // most labels of a stream: max_label_names_per_series, 15
	LabelName     int           // bytes of a label's name: max_label_name_length, 1024
	LabelValue    int           // bytes of a label's value: max_label_value_length, 2048
	Metadata      int           // most pairs of an entry: max_structured_metadata_entries_count, 128
	MetadataBytes int           // names and values of an entry: max_structured_metadata_size, 65536
	MaxAge        time.Duration // age of an entry: reject_old_samples_max_age, 7 days
	MaxFuture     time.Duration // how far ahead an entry may be: creation_grace_period, 10 minutes
}

// DefaultLimits are the limits of a Loki that nobody configured.
func DefaultLimits() Limits {
	return Limits{
		Labels:        15,
		LabelName:     1024,
		LabelValue:    2048,
		Metadata:      128,
		MetadataBytes: 64 << 10,
		MaxAge:        7 * 24 * time.Hour,
		MaxFuture:     10 * time.Minute,
	}
}
