package cli

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sf2loki/pkg/sysexits"
)

// fileInterval is how often the metrics file is written; node_exporter's own
// scrapes are rarely closer.
const fileInterval = 15 * time.Second

// startMetrics serves and writes the metrics as the flags ask, until stop.
func (app *App) startMetrics() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	if addr := app.common.metricsListen; addr != "" {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("serve metrics: %w", err))
		}
		app.Log.Info("serving metrics", "address", ln.Addr().String())
		srv := newServer(app.handler())
		go srv.Serve(ln)
		stops = append(stops, func() { srv.Close() })
	}
	if path := app.common.metricsFile; path != "" {
		if err := app.Metrics.openFile(path); err != nil {
			app.Log.Warn("metrics file is unreadable, its counters begin anew", "err", err)
		}
		if err := app.Metrics.writeFile(); err != nil {
			stop()
			return nil, sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("write metrics: %w", err))
		}
		stops = append(stops, app.writeRegularly())
	}
	return stop, nil
}

// writeRegularly writes the metrics file until the function it returns has
// returned.
func (app *App) writeRegularly() (stop func()) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(fileInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := app.Metrics.writeFile(); err != nil {
					app.Log.Error("write metrics", "err", err)
				}
			case <-quit:
				return
			}
		}
	})
	return func() { close(quit); done.Wait() }
}

func (app *App) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(app.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", app.serveReady)
	mux.HandleFunc("GET /statusz", app.serveStatus)
	return mux
}

func (app *App) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reason := app.notReady(); reason != "" {
		http.Error(w, reason, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// notReady says why the program is not ready, "" if it is.
func (app *App) notReady() string {
	app.mu.Lock()
	ready := app.ready
	app.mu.Unlock()
	if ready == nil {
		return ""
	}
	if err := ready(); err != nil {
		return cmp.Or(app.Secrets.HideLong(oneLine(err.Error())), "not ready")
	}
	return ""
}
