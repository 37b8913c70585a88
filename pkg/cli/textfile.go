package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sf2loki/pkg/atomicfile"
	"sf2loki/pkg/sysexits"
)

// textfile is what a metrics file held when the run began: the counters go on
// from there, so that runs of cron add up instead of starting at zero.
type textfile map[string]*dto.MetricFamily

func readTextfile(path string) (textfile, error) {
	// What is no file, or only leads to one, is not what an earlier run has left.
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		err = fmt.Errorf("%.300v", err) // it quotes what it cannot read, whole
	}
	return families, err
}

// openFile makes path the textfile and reads what it holds.
func (m *Metrics) openFile(path string) error {
	base, err := readTextfile(path)
	m.path, m.base = path, base
	return err
}

// writeFile writes the project's own series, each with its instance, on top of
// what the file held when the run began.
func (m *Metrics) writeFile() error {
	families, err := m.Gather()
	if err != nil {
		return err
	}
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), prefix)
	})
	m.mu.Lock()
	instance := m.instance
	m.mu.Unlock()
	addLabel(families, "instance_name", instance)
	for _, f := range families {
		m.base.addTo(f, instance)
	}
	var buf bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&buf, f); err != nil {
			return err
		}
	}
	return atomicfile.Replace(m.path, buf.Bytes(), 0o644) // the node exporter is another user
}

// writeLast writes the file for the last time, with how the run ended.
func (m *Metrics) writeLast(code sysexits.Code) error {
	if m.path == "" {
		return nil
	}
	m.mu.Lock()
	m.end, m.status = time.Now(), int(code)
	m.mu.Unlock()
	if err := m.writeFile(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// addTo adds the counts of the file to those of f, and the instance's series
// that this run has not touched.
func (t textfile) addTo(f *dto.MetricFamily, instance string) {
	old := t[f.GetName()]
	if old == nil || old.GetType() != f.GetType() {
		return
	}
	if f.GetType() != dto.MetricType_COUNTER && f.GetType() != dto.MetricType_HISTOGRAM {
		return
	}
	now := map[string]*dto.Metric{}
	for _, series := range f.Metric {
		now[labelKey(series)] = series
	}
	for _, was := range old.Metric {
		key := labelKey(was)
		is, n := now[key], was.Counter.GetValue()
		switch {
		case !(n >= 0 && n <= math.MaxFloat64): // of no run
		case is == nil && labelValue(was, "instance_name") == instance:
			f.Metric = append(f.Metric, was)
			now[key] = was
		case is == nil:
		case was.Counter != nil:
			*is.Counter.Value += was.Counter.GetValue()
		case was.Histogram != nil:
			addHistogram(is.Histogram, was.Histogram)
		}
	}
}

// addHistogram adds was to is if they have the same bounds. The text format
// lists the bucket +Inf, a gathered histogram does not.
func addHistogram(is, was *dto.Histogram) {
	before := map[float64]uint64{}
	for _, b := range was.Bucket {
		before[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for _, b := range is.Bucket {
		if _, ok := before[b.GetUpperBound()]; !ok {
			return
		}
	}
	for _, b := range is.Bucket {
		*b.CumulativeCount += before[b.GetUpperBound()]
	}
	*is.SampleCount += was.GetSampleCount()
	*is.SampleSum += was.GetSampleSum()
}

func labelKey(series *dto.Metric) string {
	var b strings.Builder
	labels := slices.Clone(series.Label)
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, l := range labels {
		fmt.Fprintf(&b, "%s=%q,", l.GetName(), l.GetValue())
	}
	return b.String()
}

func labelValue(series *dto.Metric, name string) string {
	for _, l := range series.Label {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
