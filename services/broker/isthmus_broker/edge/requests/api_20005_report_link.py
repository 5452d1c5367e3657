"""ReportLink, an Isthmus API: the state of a link, reported by a linker's worker."""

from isthmus_broker.core.metadata.link_refusals import link_report_refused
from isthmus_broker.core.metadata.link_requests import report_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import serve_by_controller

OPERATION = ControllerOperation(report_link, link_report_refused)
handle = serve_by_controller
