package metrics

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/features"
	// Registers client-go's metrics of API requests (rest_client_*), as in kube-proxy, in
	// component-base's registry for the whole process; there is no other way without copying the
	// package.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
)

// SetNativeHistograms sets whether the histograms of client-go, in component-base's
// registry, are native ones as well. It must be called before the first client of the API
// is created, which registers them.
func SetNativeHistograms(enabled bool) error {
	gates := featuregate.NewFeatureGate()
	if err := features.AddFeatureGates(gates); err != nil {
		return err
	}
	if err := gates.SetFromMap(map[string]bool{string(features.NativeHistograms): enabled}); err != nil {
		return err
	}
	features.ApplyFeatureGates(gates)
	return nil
}
