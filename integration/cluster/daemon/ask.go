package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// timeout is for an answer of the proxy's HTTP servers.
const timeout = 5 * time.Second

// Get asks the proxy from inside its node for a URL with a numeric address and
// returns status and body.
func (d *Daemon) Get(url string) (status int, body string, err error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: d.host.DialContext, DisableKeepAlives: true},
		Timeout:   timeout,
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("ask the proxy: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("ask the proxy: %w", err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("ask the proxy: get %s: %w", url, err)
	}
	return response.StatusCode, string(b), nil
}

// ok returns an error if the answer is not 200.
func (d *Daemon) ok(url string) error {
	status, body, err := d.Get(url)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("ask the proxy: get %s: status %d: %s", url, status, body)
	}
	return err
}

// Metrics returns the metrics at [MetricsURL], by name.
func (d *Daemon) Metrics() (map[string]*dto.MetricFamily, error) {
	client := http.Client{
		Transport: &http.Transport{DialContext: d.host.DialContext, DisableKeepAlives: true},
		Timeout:   timeout,
	}
	response, err := client.Get(MetricsURL)
	if err != nil {
		return nil, fmt.Errorf("ask the proxy for metrics: %w", err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the proxy's metrics: %w", err)
	}
	return families, nil
}

// Metric returns the sum of a metric's values over its labels; of a histogram, how many
// were counted. A metric that is not there is an error.
func (d *Daemon) Metric(name string) (sum float64, err error) {
	families, err := d.Metrics()
	if err != nil {
		return 0, err
	}
	f, ok := families[name]
	if !ok {
		return 0, fmt.Errorf("the proxy has no metric %s", name)
	}
	for _, m := range f.Metric {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue() +
			float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
	}
	return sum, nil
}
