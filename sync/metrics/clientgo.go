package metrics

import (
	// Registers client-go's metrics of API requests (rest_client_*), as in kube-proxy,
	// in component-base's registry for the whole process; there is no other way without
	// copying the package. It adds about 0.1 MB to the program, because the types of
	// kube-proxy's configuration need component-base's metrics anyway.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
)
