package cli

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// Metrics is the program's registry. Names are given without the prefix
// sf2loki_. Declare everything before Exec does its work, labelled series by
// WithLabelValues, so that each exists from the start at zero.
type Metrics struct {
	reg  *prometheus.Registry
	path string // of the textfile
	base textfile

	mu       sync.Mutex
	instance string
	org      string
	end      time.Time // zero while the program runs
	status   int
}

const prefix = "sf2loki_"

func newMetrics(program string) *Metrics {
	m := &Metrics{reg: prometheus.NewRegistry()}
	m.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := m.Gauge("build_info", "1, with the version of the program.", "program", "version")
	info.WithLabelValues(program, version()).Set(1)
	m.Collect(func(s *Samples) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.end.IsZero() {
			s.Gauge("run_exit_status", "Exit status of the program's last run.", float64(m.status), "program", program)
			s.Gauge("run_end_timestamp_seconds", "When the program's last run ended.", Seconds(m.end), "program", program)
		}
	})
	return m
}

// Counter declares a counter. Without labels it is there at once.
func (m *Metrics) Counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	m.reg.MustRegister(v)
	if len(labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// Gauge declares a gauge. Without labels it is there at once.
func (m *Metrics) Gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	m.reg.MustRegister(v)
	if len(labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// Histogram declares a histogram. Without labels it is there at once.
func (m *Metrics) Histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	m.reg.MustRegister(v)
	if len(labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// Samples collects the values of one look at a package that counts by itself.
type Samples struct{ ch chan<- prometheus.Metric }

// Counter adds a counter's value; labels are names and values in turn.
func (s *Samples) Counter(name, help string, v float64, labels ...string) {
	s.add(prometheus.CounterValue, name, help, v, labels)
}

// Gauge adds a gauge's value; labels are names and values in turn.
func (s *Samples) Gauge(name, help string, v float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, v, labels)
}

// Seconds is a time as metrics have it; 0 for none.
func Seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

// Histogram adds a histogram: counts holds how many observations each of the
// upper bounds is the first one of, and then how many lie above all of them.
func (s *Samples) Histogram(name, help string, bounds []float64, counts []int64, sum float64, labels ...string) {
	desc, values := describe(name, help, labels)
	below := make(map[float64]uint64, len(bounds))
	n := uint64(0)
	for i, count := range counts {
		n += uint64(count)
		if i < len(bounds) {
			below[bounds[i]] = n
		}
	}
	s.ch <- prometheus.MustNewConstHistogram(desc, n, sum, below, values...)
}

func (s *Samples) add(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	desc, values := describe(name, help, labels)
	s.ch <- prometheus.MustNewConstMetric(desc, kind, v, values...)
}

func describe(name, help string, labels []string) (desc *prometheus.Desc, values []string) {
	var names []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	return prometheus.NewDesc(prefix+name, help, names, nil), values
}

// Collect has fn called at every look at the metrics: for the counts that a
// package keeps by itself, which know nothing of Prometheus.
func (m *Metrics) Collect(fn func(s *Samples)) { m.reg.MustRegister(collectFunc(fn)) }

type collectFunc func(s *Samples)

// Describe sends nothing: which series there are is told at each look.
func (collectFunc) Describe(chan<- *prometheus.Desc)       {}
func (fn collectFunc) Collect(ch chan<- prometheus.Metric) { fn(&Samples{ch}) }

// SetOrg gives every series the label org; "" none.
func (m *Metrics) SetOrg(org string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.org = org
}

func (m *Metrics) setInstance(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instance = name
}

// Gather returns what /metrics serves.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := m.reg.Gather()
	m.mu.Lock()
	org := m.org
	m.mu.Unlock()
	if org != "" {
		addLabel(families, "org", org)
	}
	return families, err
}

// addLabel adds a label to every series of the project's families that does
// not have it.
func addLabel(families []*dto.MetricFamily, name, value string) {
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		for _, series := range f.Metric {
			if slices.ContainsFunc(series.Label, func(l *dto.LabelPair) bool { return l.GetName() == name }) {
				continue
			}
			series.Label = append(series.Label, &dto.LabelPair{Name: &name, Value: &value})
			slices.SortFunc(series.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
		}
	}
}
