package metrics

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/features"
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
