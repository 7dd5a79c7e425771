package metrics

import (
	// Makes client-go count its requests to the API server, in component-base's
	// registry for the whole process, as in kube-proxy: rest_client_*. There is no
	// way to have that in a registry of one's own but to write it again. It adds
	// about 0.1 MB to the program, because the types of kube-proxy's configuration
	// need component-base's metrics anyway.
	_ "k8s.io/component-base/metrics/prometheus/restclient"
)
