"""ReportLink, an API of our own: what a linker's worker found of a link."""

from isthmus_broker.core.metadata.link_refusals import link_report_refused
from isthmus_broker.core.metadata.link_requests import report_link
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.edge.requests.controller_requests import answer_by_controller

OPERATION = ControllerOperation(report_link, link_report_refused)
handle = answer_by_controller
